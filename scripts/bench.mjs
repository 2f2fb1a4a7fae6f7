// `npm run bench`: the benchmarks, against real servers and other libraries. `bench/main.ts` builds the measured bundle.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("bench/main.ts", "the benchmarks");
