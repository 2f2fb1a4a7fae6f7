import { href, segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { addExplainer, Reasons } from "../../kit/explain.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { counted } from "../../kit/numbers.ts";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";

addExplainer("worker", WorkerExplanation, "Which jobs does this worker get?");

const TONES: Readonly<Record<string, Tone>> = {
  blocked: "bad",
  silent: "bad",
  leaving: "warn",
  full: "warn",
  working: "busy",
};

function WorkerExplanation({ id }: { readonly id: string }) {
  const explanation = useResource(
    `explain worker ${id}`,
    (signal) => api.value.request("GET /workers/{id}/explain", { path: { id } }, { signal }),
    { refreshMs: 2_000 },
  );
  return (
    <Show of={explanation} what="the explanation">
      {({ worker, state, reasons }) => (
        <>
          <p class="lead">
            <Badge tone={TONES[state] ?? "quiet"}>{state}</Badge>
          </p>
          <Facts
            of={[
              ["worker", <Id key="id" id={id} />],
              ["transport", worker.transport],
              ["pool", worker.pool && <a href={href("/workers", { pool: worker.pool })}>{worker.pool}</a>],
              ["serves", <code key="serves">{worker.topics.join(", ")}</code>],
              ["capabilities", worker.capabilities.join(", ")],
              [
                "load",
                worker.max_parallel_jobs === null
                  ? counted(worker.active_jobs, "job")
                  : `${worker.active_jobs} of ${counted(worker.max_parallel_jobs, "slot")}`,
              ],
              ["last seen", <Time key="seen" at={worker.last_seen} both />],
              [
                "leases",
                worker.leases.length > 0 &&
                  worker.leases.map(({ job_id, deadline }) => (
                    <span key={job_id}>
                      <a class="mono" href={`/jobs/${segment(job_id)}`}>
                        {job_id}
                      </a>{" "}
                      until <Time at={deadline} />{" "}
                    </span>
                  )),
              ],
            ]}
          />
          <Reasons of={reasons} />
        </>
      )}
    </Show>
  );
}
