-- The outbox and the inbox of Semel in a Postgres database. Safe to run again.
--
-- To write an event from any language, in the transaction of the business:
--   INSERT INTO semel_outbox (id, task, input, partition) VALUES ('order-7-paid', 'send_receipt', '{"order":7}', 'customer-3');
-- Only id, task, queue, partition, input, headers and priority are the writer's; everything else is the relay's.
-- Write the event after the business change: then transactions that wait for each other number their events in order.

CREATE TABLE IF NOT EXISTS semel_outbox (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The key of the job.
    id         text NOT NULL UNIQUE DEFAULT gen_random_uuid()::text CHECK (length(id) BETWEEN 1 AND 255),
    task       text NOT NULL,
    queue      text,
    -- Events of one partition become jobs in their order; without one there is no order to keep.
    partition  text,
    input      json NOT NULL,
    headers    json,
    priority   smallint,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts   integer NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT '-infinity',
    error      text,
    parked_at  timestamptz,
    sent_at    timestamptz,
    job        text
);

-- What is left to do is found without looking at what is done, however much that is. Every place is above 0: only who
-- says so goes through the places. Whoever asks for a partition has to use an index that begins with it, also where the
-- planner believes that nothing waits and takes any index for as good as another.
CREATE INDEX IF NOT EXISTS semel_outbox_pending ON semel_outbox (seq)
    WHERE sent_at IS NULL AND parked_at IS NULL AND seq > 0;
CREATE INDEX IF NOT EXISTS semel_outbox_order ON semel_outbox (partition, seq)
    WHERE sent_at IS NULL AND parked_at IS NULL AND partition IS NOT NULL;
CREATE INDEX IF NOT EXISTS semel_outbox_failing ON semel_outbox (partition, seq)
    WHERE sent_at IS NULL AND parked_at IS NULL AND attempts > 0;
CREATE INDEX IF NOT EXISTS semel_outbox_parked ON semel_outbox (seq) WHERE parked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS semel_outbox_sent ON semel_outbox (sent_at) WHERE sent_at IS NOT NULL;

-- Wakes the relays when the transaction commits.
CREATE OR REPLACE FUNCTION semel_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('semel_outbox', '');
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER semel_outbox_wake AFTER INSERT ON semel_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION semel_outbox_wake();

CREATE TABLE IF NOT EXISTS semel_outbox_fact (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
);

-- One row per effect that was carried out here, in the transaction that carried it out.
CREATE TABLE IF NOT EXISTS semel_inbox (
    origin text NOT NULL,
    step   text NOT NULL,
    job    text NOT NULL,
    fence  bigint NOT NULL,
    output json,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (origin, step)
);

-- The newest delivery of a job that has been here: an older one changes nothing.
CREATE TABLE IF NOT EXISTS semel_inbox_fence (
    job   text PRIMARY KEY,
    fence bigint NOT NULL,
    at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
