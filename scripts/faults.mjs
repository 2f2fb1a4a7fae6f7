// npm run faults -- [--minutes N] [--seed N] [--faults kill,disk_full,…] [embedded|cluster]...
// Breaks a deployment under load: kills, stalls, network cuts, clock steps, a full disk, power cuts, flipped bits. Checks from
// what clients and workers saw that no acknowledged job is lost, none has two ends, and no damage is silent. The seed decides
// every fault and is printed. `npm test` runs a two-minute version.

import { runWithServers } from "./with-servers.mjs";

await runWithServers("test/system/faults/faults-main.ts", "the fault tests");
