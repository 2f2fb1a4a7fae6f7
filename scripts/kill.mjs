// npm run kill -- [--times N] [--seed N] [embedded|control|servers]...
// Sends SIGKILL to the embedded process, a control process, or nats-server and redis-server at random times under load, and
// checks that every acknowledged job ends exactly once. `npm test` runs a few rounds, this script many.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("test/system/kill/kill-main.ts", "the kill tests");
