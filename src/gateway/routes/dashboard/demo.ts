/** Incidents on request. The routes exist on a control plane that was started with `--demo`. */
import { Type } from "typebox";
import { DEFAULT_ORG } from "../../../core/model/job-id.ts";
import { Problem } from "../../problem.ts";
import { type DemoControls, type Gateway, type GatewayResponse, ok, type Route } from "../../route.ts";
import { instant, orNull } from "../../views/schemas.ts";
import { startOutcomeResponse } from "../run-start.ts";

const DEMO = Type.Object(
  {
    kernel_stopped: Type.Boolean({ description: "The safety kernel of this process gives no answers." }),
    hot_lock: orNull(Type.Object({ lock: Type.String(), run_id: Type.String(), until: instant("End.") })),
  },
  { title: "Demo" },
);

export const DEMO_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/demo",
    summary: "Get the incidents that the demo causes now; requires `--demo`",
    access: "operate",
    allTenants: true,
    response: DEMO,
    handle: async (gateway) => demoView(controlsOf(gateway)),
  },
  {
    method: "POST",
    path: "/api/v1/demo/kernel",
    summary: "Stop or start the answers of the safety kernel; requires `--demo`",
    access: "operate",
    allTenants: true,
    body: Type.Object({ stopped: Type.Boolean() }, { title: "DemoKernelRequest" }),
    response: DEMO,
    handle: async (gateway, { body, principal }) => {
      const controls = controlsOf(gateway);
      controls.setKernelStopped((body as { readonly stopped: boolean }).stopped, principal.id);
      return demoView(controls);
    },
  },
  {
    method: "POST",
    path: "/api/v1/demo/lock",
    summary: "Hold a run lock for 20 s while hundreds of results wait for it; requires `--demo`",
    access: "operate",
    allTenants: true,
    response: DEMO,
    handle: async (gateway, { principal }) => {
      const controls = controlsOf(gateway);
      const heated = await controls.heatLock(principal.id);
      if (heated.kind === "hot") return demoView(controls);
      return startOutcomeResponse(heated.outcome, { org: DEFAULT_ORG, workflowId: "demo-hot-lock", version: null });
    },
  },
];

function controlsOf({ demo }: Gateway): DemoControls {
  if (demo !== null) return demo;
  throw new Problem("route_not_found", "this control plane runs without `--demo`");
}

function demoView({ isKernelStopped, hotLock }: DemoControls): GatewayResponse {
  return ok({
    kernel_stopped: isKernelStopped,
    hot_lock: hotLock && {
      lock: hotLock.lock,
      run_id: hotLock.runId,
      until: new Date(hotLock.untilMs).toISOString(),
    },
  });
}
