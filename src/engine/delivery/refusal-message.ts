import { JOBS } from "../../core/model/job.ts";
import type { WireError } from "../../core/retry/intent.ts";
import type { Content, Delivery, Message } from "../../ports/bus.ts";
import { decodePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { errorCodeNamed } from "../../protocol/schema.ts";
import { DLQ, SUBMIT } from "../../protocol/subjects.ts";
import type { Needs } from "../engine.ts";
import { packet } from "../packets.ts";

/**
 * Tells a bus client on `sys.job.dlq` that its submission was refused; null if there is no client to tell. A result names
 * nothing but its job, so there is none about a job that exists: it would mislead the client that submitted that job.
 */
export async function refusalMessage(
  engine: Needs<"world">,
  { id, subject, content }: Delivery,
  error: WireError,
): Promise<Message | null> {
  if (subject !== SUBMIT) return null;
  const refused = packetIn(content);
  if (refused?.body.kind !== "job_request" || refused.body.announces) return null;
  const { name, clock, store } = engine.world;
  const jobId = refused.body.jobId.slice(0, ID_LENGTH_MAX);
  if ((await store.load(JOBS, jobId)) !== null) return null;
  const code = errorCodeNamed(String(error.code ?? ""));
  return {
    id: `dlq:refused:${id}`,
    subject: DLQ,
    packet: packet(name, refused.traceId, clock.now(), {
      kind: "job_result",
      jobId,
      status: "failed_fatal",
      workerId: name,
      errorCode: String(error.code ?? error.name),
      errorMessage: error.message,
      ...(code === undefined ? {} : { errorCodeEnum: code }),
    }),
  };
}

function packetIn(content: Content): Packet | null {
  if (content.kind === "packet") return content.packet;
  try {
    return decodePacket(content.bytes);
  } catch {
    return null;
  }
}

const ID_LENGTH_MAX = 256;
