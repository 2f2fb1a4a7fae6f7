/** The plan, drawn. The layout depends on the plan only; states change colours and texts. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { RunDetail, RunStep } from "../../../../src/client/schema.ts";
import { everySecond } from "../../data/clock.ts";
import { hrefWith, param } from "../../data/location.ts";
import { toneOf } from "../../kit/badge.tsx";
import { counted, duration } from "../../kit/numbers.ts";
import { Loading } from "../../kit/state.tsx";
import { criticalPath, durationOf, NODE, type PlanLayout, type PlanShape, shapeOf } from "./plan.ts";
import { undoText } from "./run-compensation.tsx";
import "./runs.css";

export function RunPlan({ steps }: { readonly steps: RunDetail["steps"] }) {
  const direction = matchMedia("(max-width: 860px)").matches ? "TB" : "LR";
  const shape = useMemo(
    () => shapeOf(steps, direction),
    [
      Object.entries(steps)
        .map(([id, { depends_on }]) => `${id}<${depends_on}`)
        .join(),
      direction,
    ],
  );
  const layout = useLayout(shape);
  if (layout === null) return <Loading what="the plan" />;
  const critical = criticalPath(steps);
  // A wide plan is scaled down to fit, as long as it stays legible; then it scrolls.
  const size = (element: SVGSVGElement | null) => {
    const scale = Math.max(SCALE_MIN, Math.min(1, (element?.parentElement?.clientWidth ?? 0) / layout.width));
    element?.style.setProperty("width", `${layout.width * scale}px`);
    element?.style.setProperty("height", `${layout.height * scale}px`);
  };
  return (
    <div class="plan" tabIndex={0} role="region" aria-label="plan of the run">
      <svg viewBox={`0 0 ${layout.width} ${layout.height}`} ref={size} role="group" aria-label="steps">
        <g class="edges">
          {layout.edges.map(({ from, to, points }) => {
            const isCritical = critical.has(from) && critical.has(to);
            return <path key={`${from} ${to}`} class={isCritical ? "edge critical" : "edge"} d={curve(points)} />;
          })}
        </g>
        {Object.entries(layout.nodes).map(([id, place]) => {
          const step = steps[id];
          return step && <StepNode key={id} {...{ id, step, place }} isCritical={critical.has(id)} />;
        })}
      </svg>
      <p class="plan-key soft">
        <span class="edge-key" aria-hidden="true" /> critical path: the steps that decided how long the run takes
      </p>
    </div>
  );
}

interface NodeProps {
  readonly id: string;
  readonly step: RunStep;
  readonly place: { readonly x: number; readonly y: number };
  readonly isCritical: boolean;
}

function StepNode({ id, step, place, isCritical }: NodeProps) {
  const isChosen = param("step") === id;
  const isOpen = step.started_at !== null && step.ended_at === null;
  const spentMs = durationOf(step, isOpen ? everySecond.value : 0);
  const state = step.state.toLowerCase().replaceAll("_", " ");
  const time = spentMs === null ? "" : duration(spentMs);
  const own = step.compensation;
  const progress = own !== undefined ? undoText(own) : step.children === undefined ? state : childText(step.children);
  return (
    <a
      href={hrefWith({ step: isChosen ? null : id })}
      class={`node ${toneOf(own?.state ?? step.state)}${own === undefined ? "" : " undone"}${isCritical ? " critical" : ""}${isChosen ? " chosen" : ""}${step.started_at === null ? " unstarted" : ""}`}
      data-step={id}
      aria-current={isChosen ? "true" : undefined}
    >
      <g transform={`translate(${place.x - NODE.width / 2} ${place.y - NODE.height / 2})`}>
        <title>{isCritical ? `${id}, on the critical path` : id}</title>
        <rect class="node-box" width={NODE.width} height={NODE.height} rx={8} />
        <rect class="node-mark" width={4} height={NODE.height - 16} x={8} y={8} rx={2} />
        <text class="node-id" x={22} y={23}>
          {id.length > 24 ? `${id.slice(0, 23)}…` : id}
        </text>
        <text class="node-detail" x={22} y={44}>
          {progress}
          {time === "" ? "" : ` · ${time}`}
        </text>
        {id.length < 18 && (
          <text class="node-detail" x={NODE.width - 10} y={23} text-anchor="end">
            {step.type}
          </text>
        )}
        {step.children !== undefined && <ChildBar of={step.children} />}
      </g>
    </a>
  );
}

function childText({ count, succeeded, failed, cancelled }: NonNullable<RunStep["children"]>): string {
  const done = succeeded + failed + cancelled;
  return `${done}/${counted(count, "item")}${failed > 0 ? `, ${failed} failed` : ""}`;
}

/** Shares of the children of a list by state. */
function ChildBar({ of }: { readonly of: NonNullable<RunStep["children"]> }) {
  const whole = Math.max(1, of.count);
  const parts = [
    ["good", of.succeeded],
    ["bad", of.failed],
    ["quiet", of.cancelled],
    ["busy", of.open],
  ] as const;
  let x = 22;
  return (
    <g>
      <rect class="bar-ground" x={22} y={49} width={BAR} height={3} />
      {parts.map(([tone, share]) => {
        const width = (share / whole) * BAR;
        const at = x;
        x += width;
        return <rect key={tone} class={`bar-part ${tone}`} x={at} y={49} width={width} height={3} />;
      })}
    </g>
  );
}

/** A smooth line through the points. */
function curve(points: PlanLayout["edges"][number]["points"]): string {
  const [first, ...rest] = points;
  const end = rest.at(-1);
  if (first === undefined || end === undefined) return "";
  const middles = rest.slice(0, -1).map((point, at) => {
    const next = rest[at + 1] ?? point;
    return `Q ${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
  });
  return `M ${first.x} ${first.y} ${middles.join(" ")} L ${end.x} ${end.y}`;
}

/** Null until the layout of this shape is known. */
function useLayout(shape: PlanShape): PlanLayout | null {
  const known = useSignal<{ readonly shape: PlanShape; readonly layout: PlanLayout } | null>(null);
  useEffect(() => {
    const worker = new Worker(new URL("./layout-worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<{ readonly layout: PlanLayout }>) => {
      known.value = { shape, layout: data.layout };
      worker.terminate();
    };
    worker.postMessage({ id: 0, shape });
    return () => worker.terminate();
  }, [shape, known]);
  return known.value?.shape === shape ? known.value.layout : null;
}

const BAR = NODE.width - 32;
const SCALE_MIN = 0.72;
