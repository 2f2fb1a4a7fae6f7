// npm run outage -- [--jobs N] [--seconds N] [--times N] [default|baseline|lease]...
// Kills the safety kernel with SIGKILL while jobs wait for it, brings it back, and checks that nothing went meanwhile and
// nothing is lost; shows how evenly the checks come back, beside a stream of chance of the same rate and beside the founding
// policy; the default policy several times. `npm test` does a small one; this is the full size.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("test/system/outage/outage-main.ts", "the outage tests");
