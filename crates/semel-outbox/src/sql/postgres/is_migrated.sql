-- Whether everything that 001.sql makes is there. Gives one row. Takes no lock that anybody waits for.
SELECT NOT EXISTS (
    SELECT 1 FROM unnest(ARRAY[
        'semel_outbox', 'semel_outbox_pending', 'semel_outbox_order', 'semel_outbox_failing', 'semel_outbox_parked',
        'semel_outbox_sent', 'semel_outbox_fact', 'semel_inbox', 'semel_inbox_fence']) AS wanted (name)
    WHERE to_regclass(wanted.name) IS NULL
) AND EXISTS (
    SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('semel_outbox') AND tgname = 'semel_outbox_wake'
)
