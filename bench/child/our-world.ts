import type { World } from "../../src/world.ts";
import type { SideSpec } from "./task.ts";
export type OurSpec = Exclude<SideSpec, { kind: "bullmq" }>;
export async function openWorld(_spec: OurSpec): Promise<{ world: World; close(): Promise<void> }> {
  throw new Error("not yet");
}
