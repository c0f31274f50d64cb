-- Forgets effects that were carried out long ago, and the deliveries that did it. $1: age in milliseconds.
WITH gone AS (
    DELETE FROM semel_inbox_fence WHERE at < clock_timestamp() - $1::bigint * interval '1 millisecond'
)
DELETE FROM semel_inbox WHERE at < clock_timestamp() - $1::bigint * interval '1 millisecond'
