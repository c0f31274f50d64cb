-- Lets the server end this transaction, and with it the locks on its events, when the relay stands still or its machine
-- is gone without a word. $1: for how long nothing may be heard of it, in milliseconds.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true),
       set_config('tcp_keepalives_idle', '15', true),
       set_config('tcp_keepalives_interval', '5', true),
       set_config('tcp_keepalives_count', '3', true)
