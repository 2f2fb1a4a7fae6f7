/** Lays out a plan outside the main thread: a plan of hundreds of steps takes longer than a frame. */
import { Graph, layout } from "@dagrejs/dagre";
import type { PlanLayout, PlanShape } from "./plan.ts";

addEventListener("message", ({ data }: MessageEvent<{ readonly id: number; readonly shape: PlanShape }>) => {
  postMessage({ id: data.id, layout: layoutOf(data.shape) });
});

function layoutOf({ nodes, edges, direction }: PlanShape): PlanLayout {
  const graph = new Graph();
  graph.setGraph({ rankdir: direction, nodesep: 18, ranksep: 48, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of nodes) graph.setNode(id, { width, height });
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const placed = nodes.map(({ id }) => {
    const { x, y } = graph.node(id);
    return [id, { x: x ?? 0, y: y ?? 0 }] as const;
  });
  const lines = graph.edges().map(({ v, w }) => ({ from: v, to: w, points: graph.edge(v, w).points ?? [] }));
  return { width, height, nodes: Object.fromEntries(placed), edges: lines };
}
