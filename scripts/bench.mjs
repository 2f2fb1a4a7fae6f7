// `npm run bench`: the benchmarks, against real servers and real peers. `bench/main.ts` makes the bundle that it measures.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("bench/main.ts", "the benchmarks");
