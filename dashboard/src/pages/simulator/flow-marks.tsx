/** Messages as arrows between lanes, lock holds as bars below them. */
import { type Arrow, type Bar, heldText, shortLock } from "./flows.ts";
import { ROW_PX, type Scale } from "./scale.ts";

interface ArrowsProps {
  readonly of: readonly Arrow[];
  readonly scale: Scale;
  /** Entries whose messages are drawn strongly. */
  readonly isStrong: (arrow: Arrow) => boolean;
}

export function Arrows({ of, scale, isStrong }: ArrowsProps) {
  return (
    <>
      <defs>
        <marker id="arrow-head" viewBox="0 0 8 8" refX={12} refY={4} markerWidth={7} markerHeight={7} orient="auto">
          <path d="M0 0 L8 4 L0 8 z" />
        </marker>
      </defs>
      {of.map((arrow) => (
        <ArrowLine
          key={`${arrow.from} ${arrow.to} ${arrow.message.to}`}
          {...{ arrow, scale }}
          strong={isStrong(arrow)}
        />
      ))}
    </>
  );
}

interface ArrowLineProps {
  readonly arrow: Arrow;
  readonly scale: Scale;
  readonly strong: boolean;
}

function ArrowLine({ arrow: { message, from, to }, scale, strong }: ArrowLineProps) {
  const { lost, subject, id, entry } = message;
  const [x1, y1, x2, y2] = [scale.x(from), scale.y(message.from), scale.x(to), scale.y(message.to)];
  const isLost = entry === null;
  // A lost message ends on the way.
  const share = isLost ? LOST_SHARE : 1;
  const [endX, endY] = [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
  const path =
    y1 === y2 ? `M${x1} ${y1} Q${(x1 + endX) / 2} ${y1 - ARC_PX} ${endX} ${endY}` : `M${x1} ${y1} L${endX} ${endY}`;
  return (
    <g class={`arrow${isLost ? " lost" : ""}${strong ? " strong" : ""}`} {...(isLost ? {} : { "data-at": entry })}>
      <title>{`${message.from} to ${message.to}: ${subject} ${id}${isLost ? `, lost: ${lost ?? NOT_HANDLED}` : ""}`}</title>
      <path class="line" d={path} {...(isLost ? {} : { "marker-end": "url(#arrow-head)" })} />
      {isLost && <path class="cross" d={`M${endX - 4} ${endY - 4} l8 8 m0 -8 l-8 8`} />}
    </g>
  );
}

interface BarsProps {
  readonly of: readonly Bar[];
  readonly scale: Scale;
  readonly at: number;
}

/** A hold that lasts at the cursor is filled. */
export function Bars({ of, scale, at }: BarsProps) {
  return (
    <>
      {of.map(({ hold, from, to, row }) => {
        const [left, right] = [Math.max(0, scale.x(from)), Math.min(scale.width, scale.x(to))];
        const top = scale.rowY(row);
        const text = fitting(hold, right - left - 2 * PAD_PX);
        return (
          <g
            key={`${hold.key} ${hold.fence} ${from}`}
            class={`hold${hold.expired ? " expired" : ""}${from <= at && at < to ? " current" : ""}`}
            data-at={Math.max(0, Math.floor(from))}
          >
            <title>{`${hold.key}: ${hold.holder}, fence ${hold.fence}, ${heldText(hold)}`}</title>
            <rect x={left} y={top + 2} width={Math.max(2, right - left)} height={ROW_PX - 4} rx={3} />
            {text !== "" && (
              <text x={left + PAD_PX} y={top + ROW_PX - 6}>
                {text}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

/** The longest text that the bar has room for. */
function fitting({ key, holder, fence }: Bar["hold"], px: number): string {
  const texts = [`${holder} #${fence} · ${shortLock(key)}`, `${holder} #${fence}`, `#${fence}`];
  return texts.find((text) => text.length * LETTER_PX <= px) ?? "";
}

export const NOT_HANDLED = "its process ended before it was handled";
const LOST_SHARE = 0.6;
const ARC_PX = 22;
const PAD_PX = 5;
/** A little more than the mean width of a letter. */
const LETTER_PX = 6.2;
