-- Schema 1. One file, several processes, one writer at a time.
--
-- `life` is the truth about where a job stands; `ready` is the only index it has to be kept in step with.
-- A key is held if the owner with the highest generation says so: no row is a lock.
-- Times are milliseconds since 1970, UTC. Ids and tokens are the 16 bytes of the UUID, followed by the
-- namespace's number in every namespace but the first.

CREATE TABLE namespace (
  ns   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- Numbers that must not go back when rows are removed.
CREATE TABLE floor (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A task in a queue. Its jobs by phase, its counters ever. `removed` with its queue (1, and 2 once its jobs are swept),
-- it stays for its totals.
CREATE TABLE lane (
  lane INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL, queue TEXT NOT NULL, task TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0, deferred INTEGER NOT NULL DEFAULT 0,
  parked INTEGER NOT NULL DEFAULT 0, complete INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  n_accepted INTEGER NOT NULL DEFAULT 0, n_duplicate INTEGER NOT NULL DEFAULT 0, n_replaced INTEGER NOT NULL DEFAULT 0,
  n_debounced INTEGER NOT NULL DEFAULT 0, n_deferred INTEGER NOT NULL DEFAULT 0, n_rejected INTEGER NOT NULL DEFAULT 0,
  n_conflicts INTEGER NOT NULL DEFAULT 0, n_observed INTEGER NOT NULL DEFAULT 0, n_collisions INTEGER NOT NULL DEFAULT 0,
  n_completed INTEGER NOT NULL DEFAULT 0, n_failed INTEGER NOT NULL DEFAULT 0, n_cancelled INTEGER NOT NULL DEFAULT 0,
  n_retried INTEGER NOT NULL DEFAULT 0, n_stale_writes INTEGER NOT NULL DEFAULT 0, n_expired INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX lane_live ON lane (ns, queue, task) WHERE removed = 0;

-- What a job is. Written once, but for `replace`. Without an input it is a stub.
CREATE TABLE job (
  seq INTEGER PRIMARY KEY,          -- arrival
  id BLOB NOT NULL,
  enqueued_at INTEGER NOT NULL,
  birth BLOB,                       -- how it fared at first, where nothing else was written with it (born.rs)
  input TEXT, headers TEXT, meta TEXT, timeout INTEGER, producer TEXT,
  digest BLOB, grp BLOB, key_text TEXT, key_by INTEGER, scope TEXT, input_digest BLOB,
  origin BLOB, replayed_from BLOB, would TEXT, collides_with BLOB, born INTEGER
) STRICT;
CREATE INDEX job_origin ON job (origin) WHERE origin IS NOT NULL;

-- How a job fares: narrow, because it is written at every turn. A constraint that is violated rolls the transaction back:
-- were it the statement, SQLite would keep copies of pages for every statement that writes many rows.
CREATE TABLE life (
  seq INTEGER PRIMARY KEY ON CONFLICT REPLACE,
  lane INTEGER NOT NULL ON CONFLICT ROLLBACK,
  phase INTEGER NOT NULL ON CONFLICT ROLLBACK, nprio INTEGER NOT NULL ON CONFLICT ROLLBACK, run_at INTEGER NOT NULL ON CONFLICT ROLLBACK,
  attempt INTEGER NOT NULL ON CONFLICT ROLLBACK, max_attempts INTEGER NOT NULL ON CONFLICT ROLLBACK,
  deliveries INTEGER NOT NULL ON CONFLICT ROLLBACK, max_deliveries INTEGER NOT NULL ON CONFLICT ROLLBACK,
  fence INTEGER NOT NULL ON CONFLICT ROLLBACK, settled INTEGER, began INTEGER, until INTEGER,
  started_at INTEGER, finished_at INTEGER,
  worker INTEGER, last_error INTEGER,
  hold INTEGER, ttl INTEGER, cool_down INTEGER, taken_at INTEGER, expires_at INTEGER, generation INTEGER
) STRICT;

-- Jobs in phases that few are in: deferred, parked, failed, cancelled. Not an index of `life`: without one, SQLite writes
-- a row of `life` over the one before instead of taking that out first.
CREATE TABLE rare (
  phase INTEGER NOT NULL, lane INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (phase, lane, seq)
) STRICT, WITHOUT ROWID;

-- The order in which waiting jobs go out: a lane that is paused is never looked at.
CREATE TABLE ready (
  lane INTEGER NOT NULL, nprio INTEGER NOT NULL, run_at INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (lane, nprio, run_at, seq)
) STRICT, WITHOUT ROWID;

-- Owners of keys by the first 48 bits of the digest; the job has all of it. The highest generation of a digest decides.
CREATE TABLE key (
  h INTEGER NOT NULL, generation INTEGER NOT NULL, seq INTEGER,   -- seq NULL: the same as the generation
  PRIMARY KEY (h, generation)
) STRICT, WITHOUT ROWID;

-- Owners that are not in `key` yet, a row per commit: packed (keys.rs). A place in `key` is a random page; here it is the
-- last one. They are moved over in the order of the index, many at a time.
CREATE TABLE key_log (
  n INTEGER PRIMARY KEY,
  owners BLOB NOT NULL
) STRICT;

-- What came of each submission that became a job: > 0 the job. < 0 the entry of the ledger, where a token that led to a
-- job of a removed queue was absorbed later; what else was absorbed is in `ledger` and `token_run`.
CREATE TABLE token (
  token BLOB PRIMARY KEY,
  ref INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One claimed batch. `until` is never later than the earliest lease in it that still runs; without one it is the largest
-- number there is. Kept until `forget_at`, so that a claim can be sent again.
CREATE TABLE lease (
  fence INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL, until INTEGER NOT NULL, token BLOB NOT NULL UNIQUE, seqs BLOB NOT NULL, forget_at INTEGER NOT NULL
) STRICT;
CREATE INDEX lease_until ON lease (ns, until);
CREATE INDEX lease_forget ON lease (ns, forget_at);

CREATE TABLE worker (
  worker INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- Jobs that ended, a row per commit, for retention: kind 0 complete, 1 failed or cancelled.
CREATE TABLE ended (
  ns INTEGER NOT NULL, kind INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, seqs BLOB NOT NULL,
  PRIMARY KEY (ns, kind, n)
) STRICT, WITHOUT ROWID;

-- Jobs kept only for their key; looked at again at `check_at`.
CREATE TABLE stub (
  seq INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL, check_at INTEGER NOT NULL
) STRICT;
CREATE INDEX stub_check ON stub (ns, check_at);

-- Deliveries that ended, but for the one that completed a job: that one is told by `life`.
CREATE TABLE attempt (
  seq INTEGER NOT NULL, n INTEGER NOT NULL,
  attempt INTEGER NOT NULL, fence INTEGER NOT NULL, began INTEGER, ended INTEGER NOT NULL,
  result INTEGER NOT NULL, error TEXT, worker INTEGER,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE output (seq INTEGER PRIMARY KEY, output TEXT NOT NULL) STRICT;
CREATE TABLE progress (seq INTEGER PRIMARY KEY, progress REAL NOT NULL) STRICT;
CREATE TABLE follow (holder INTEGER PRIMARY KEY, follower INTEGER NOT NULL UNIQUE) STRICT;
CREATE TABLE replay (letter INTEGER PRIMARY KEY, fresh BLOB NOT NULL) STRICT;

-- Absorbed submissions, append-only: rows of a page, packed (ledger/packed.rs), each named after its first entry. Two
-- indexes are filled later: `token_run` up to floor('ledger_tokens'), `ledger_key` up to floor('ledger_indexed').
CREATE TABLE ledger (
  n INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL, at INTEGER NOT NULL, entries BLOB NOT NULL
) STRICT;
-- Tokens of entries up to floor('ledger_tokens'): sorted, written once, dropped whole (ledger/runs.rs).
CREATE TABLE token_run (
  n INTEGER PRIMARY KEY,            -- the last entry in it
  ns INTEGER NOT NULL, low BLOB NOT NULL, high BLOB NOT NULL, tokens BLOB NOT NULL
) STRICT;
CREATE TABLE ledger_key (
  digest BLOB NOT NULL, n INTEGER NOT NULL,
  PRIMARY KEY (digest, n)
) STRICT, WITHOUT ROWID;
-- Entries of a key that are no longer in the ledger.
CREATE TABLE ledger_total (
  digest BLOB PRIMARY KEY,
  gone INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE step (
  origin BLOB NOT NULL, name TEXT NOT NULL,
  state INTEGER NOT NULL, job BLOB NOT NULL, fence INTEGER NOT NULL, token BLOB NOT NULL,
  generation INTEGER NOT NULL, begun_at INTEGER NOT NULL, ended_at INTEGER, output TEXT,
  PRIMARY KEY (origin, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_begun ON step (begun_at) WHERE state = 0;

CREATE TABLE guard (
  digest BLOB PRIMARY KEY,
  token BLOB NOT NULL, ttl INTEGER NOT NULL, expires_at INTEGER NOT NULL, output TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX guard_expires ON guard (expires_at);
CREATE TABLE guard_count (
  ns INTEGER PRIMARY KEY,
  fresh INTEGER NOT NULL, in_progress INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT;

-- kind 0 everything, 1 a queue, 2 a task.
-- `closed` and `observe`: 0 not, 1 until changed, else until then.
CREATE TABLE setting (
  ns INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL,
  paused_since INTEGER, paused_until INTEGER, reason TEXT,
  closed INTEGER NOT NULL, is_unique INTEGER NOT NULL, observe INTEGER NOT NULL,
  PRIMARY KEY (ns, kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE document (
  ns INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  version INTEGER NOT NULL, body TEXT NOT NULL, updated_at INTEGER NOT NULL, expires_at INTEGER,
  PRIMARY KEY (ns, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX document_expires ON document (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE feed (
  ns INTEGER NOT NULL, name TEXT NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (ns, name, n)
) STRICT, WITHOUT ROWID;

-- Counters at a moment, as a JSON array in the order of the columns n_… of `lane`. A baseline has lane > 0.
CREATE TABLE snapshot (
  ns INTEGER NOT NULL, at INTEGER NOT NULL, counts TEXT NOT NULL,
  PRIMARY KEY (ns, at)
) STRICT, WITHOUT ROWID;
CREATE TABLE baseline (
  lane INTEGER PRIMARY KEY,
  at INTEGER NOT NULL, counts TEXT NOT NULL
) STRICT;
CREATE TABLE reset (ns INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;

PRAGMA user_version = 2;
