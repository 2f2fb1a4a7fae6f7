/** The messages, locks and faults of the timeline's window as tables. */
import type { ComponentChildren } from "preact";
import { param, setParams } from "../../data/location.ts";
import { counted, decimal, duration } from "../../kit/numbers.ts";
import { NOT_HANDLED } from "./flow-marks.tsx";
import { type Arrow, type Bar, heldText } from "./flows.ts";
import { conditionText, type Entry, type Span } from "./history.ts";

interface WindowTablesProps {
  readonly trace: readonly Entry[];
  readonly arrows: readonly Arrow[];
  readonly bars: readonly Bar[];
  readonly spans: readonly Span[];
}

export function WindowTables({ trace, arrows, bars, spans }: WindowTablesProps) {
  const isOpen = param("tables") !== "";
  const timeOf = (at: number) => `${decimal(trace[Math.min(at, trace.length - 1)]?.at_ms ?? 0)} ms`;
  const texts = [counted(arrows.length, "message"), counted(bars.length, "lock"), counted(spans.length, "fault")];
  return (
    <details
      class="window-tables"
      open={isOpen}
      onToggle={(event) => setParams({ tables: event.currentTarget.open ? "1" : null }, { replace: true })}
    >
      <summary>As tables: {texts.join(", ")}</summary>
      {isOpen && (
        <>
          <Plain label="messages of the timeline" heads={["Sent", "From", "To", "Message", "Delivery"]}>
            {arrows.map(({ message }, index) => (
              <tr key={index} class={message.entry === null ? "lost" : ""}>
                <td class="end soft">{decimal(message.sent_ms)} ms</td>
                <td>{message.from}</td>
                <td>{message.to}</td>
                <td class="wrap">{message.id === "" ? message.subject : message.id}</td>
                <td>
                  {message.entry === null
                    ? `lost: ${message.lost ?? NOT_HANDLED}`
                    : `after ${duration((message.ended_ms ?? message.sent_ms) - message.sent_ms)}`}
                </td>
              </tr>
            ))}
          </Plain>
          <Plain label="locks of the timeline" heads={["Acquired", "Holder", "Fence", "Lock", "End"]}>
            {bars.map(({ hold }, index) => (
              <tr key={index}>
                <td class="end soft">{decimal(hold.from_ms)} ms</td>
                <td>{hold.holder}</td>
                <td>{hold.fence}</td>
                <td class="wrap">{hold.key}</td>
                <td>{heldText(hold)}</td>
              </tr>
            ))}
          </Plain>
          <Plain label="faults of the timeline" heads={["From", "Process", "Fault", "Until"]}>
            {spans.map((span, index) => (
              <tr key={index}>
                <td class="end soft">{timeOf(span.from)}</td>
                <td>{span.lane}</td>
                <td>{conditionText(span)}</td>
                <td>{span.to >= trace.length ? "the end" : timeOf(span.to)}</td>
              </tr>
            ))}
          </Plain>
        </>
      )}
    </details>
  );
}

interface PlainProps {
  readonly label: string;
  readonly heads: readonly string[];
  readonly children: ComponentChildren;
}

function Plain({ label, heads, children }: PlainProps) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table class="plain" aria-label={label}>
        <thead>
          <tr>
            {heads.map((head, index) => (
              <th key={head} scope="col" class={index === 0 ? "end" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
