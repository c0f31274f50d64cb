-- A delivery has ended. Values in the order of the columns.
INSERT INTO attempt (seq, n, attempt, fence, began, ended, result, error, worker) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
