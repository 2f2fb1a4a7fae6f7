// npm run kill -- [--times N] [--seed N] [embedded|control|servers]...
// Kills the embedded process, a control process, or nats-server and redis-server, with SIGKILL at random moments under
// load, and checks that every acknowledged job ends exactly once. `npm test` does a few of these; this does many.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("test/system/kill/kill-main.ts", "the kill tests");
