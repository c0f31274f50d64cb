// A producer or a worker of node-resque, as a team that has not moved yet runs it.
//   node resque.js push <port> <queue> <first> <count>
//   node resque.js work <port> <queue> <count>    prints each argument it was given, one per line, until it has so many
const { Queue, Worker } = require("node-resque");
const [, , what, port, queue, ...rest] = process.argv;
const connection = { pkg: "ioredis", host: "127.0.0.1", port: Number(port), database: 0, namespace: "resque" };

async function push(first, count) {
  const producer = new Queue({ connection }, {});
  producer.on("error", (error) => { throw error; });
  await producer.connect();
  for (let n = first; n < first + count; n += 1) await producer.enqueue(queue, "Mail::Send", [{ n }, "text"]);
  await producer.end();
}

async function work(count) {
  let done = 0;
  const jobs = { "Mail::Send": { perform: async (...args) => { console.log(JSON.stringify(args)); done += 1; return true; } } };
  const worker = new Worker({ connection, queues: [queue], timeout: 20 }, jobs);
  worker.on("error", (error) => { throw error; });
  worker.on("failure", (_queue, _job, failure) => { throw failure; });
  await worker.connect();
  worker.start();
  const ended = setInterval(async () => {
    if (done < count) return;
    clearInterval(ended);
    await worker.end();
    process.exit(0);
  }, 20);
}

const numbers = rest.map(Number);
(what === "push" ? push(...numbers) : work(...numbers)).catch((error) => { console.error(error); process.exit(1); });
