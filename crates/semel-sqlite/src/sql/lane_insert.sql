-- A new lane. ?1 namespace, ?2 queue, ?3 task.
INSERT INTO lane (ns, queue, task) VALUES (?1, ?2, ?3)
