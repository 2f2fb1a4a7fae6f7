// npm run outage -- [--jobs N] [--seconds N] [--times N] [default|baseline|lease]...
// Kills and restarts the safety kernel while jobs wait for it. Checks that no job is dispatched meanwhile and none is lost, and
// compares the spread of the retried checks with a Poisson stream of the same rate and with the baseline retry policy.
// `npm test` runs a small version.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("test/system/outage/outage-main.ts", "the outage tests");
