-- The highest fence in use.
SELECT max(fence) FROM lease
