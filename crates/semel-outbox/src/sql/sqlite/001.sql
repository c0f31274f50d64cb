-- The outbox and the inbox of Semel in a SQLite database. Safe to run again. Times are milliseconds since 1970.
--
-- To write an event from any language, in the transaction of the business:
--   INSERT INTO semel_outbox (id, task, input, partition) VALUES ('order-7-paid', 'send_receipt', '{"order":7}', 'customer-3');
-- Only id, task, queue, partition, input, headers and priority are the writer's; everything else is the relay's.

CREATE TABLE IF NOT EXISTS semel_outbox (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The key of the job.
    id            TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16)))) CHECK (length(id) BETWEEN 1 AND 255),
    task          TEXT NOT NULL,
    queue         TEXT,
    -- Events of one partition become jobs in their order; without one there is no order to keep.
    partition     TEXT,
    input         TEXT NOT NULL CHECK (json_valid(input)),
    headers       TEXT CHECK (headers IS NULL OR json_valid(headers)),
    priority      INTEGER,
    -- Said in words that the SQLite of any program understands: `unixepoch('subsec')` is NULL before 3.42.
    created_at    INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    attempts      INTEGER NOT NULL DEFAULT 0,
    due_at        INTEGER NOT NULL DEFAULT 0,
    -- Until when one relay has it.
    claimed_by    TEXT,
    claimed_until INTEGER,
    error         TEXT,
    parked_at     INTEGER,
    sent_at       INTEGER,
    job           TEXT
);

-- What is left to do is found without looking at what is done, however much that is.
CREATE INDEX IF NOT EXISTS semel_outbox_pending ON semel_outbox (seq)
    WHERE sent_at IS NULL AND parked_at IS NULL;
CREATE INDEX IF NOT EXISTS semel_outbox_held ON semel_outbox (partition, seq)
    WHERE sent_at IS NULL AND parked_at IS NULL AND (attempts > 0 OR claimed_until IS NOT NULL);
CREATE INDEX IF NOT EXISTS semel_outbox_parked ON semel_outbox (seq) WHERE parked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS semel_outbox_sent ON semel_outbox (sent_at) WHERE sent_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS semel_outbox_fact (
    name TEXT PRIMARY KEY,
    at   INTEGER NOT NULL
) WITHOUT ROWID;

-- One row per effect that was carried out here, in the transaction that carried it out.
CREATE TABLE IF NOT EXISTS semel_inbox (
    origin TEXT NOT NULL,
    step   TEXT NOT NULL,
    job    TEXT NOT NULL,
    fence  INTEGER NOT NULL,
    output TEXT,
    at     INTEGER NOT NULL,
    PRIMARY KEY (origin, step)
) WITHOUT ROWID;

-- The newest delivery of a job that has been here: an older one changes nothing.
CREATE TABLE IF NOT EXISTS semel_inbox_fence (
    job   TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,
    at    INTEGER NOT NULL
) WITHOUT ROWID;
