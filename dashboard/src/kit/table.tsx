/**
 * Tables. `Table` shows a few rows. `VirtualTable` shows a `PagedList` of any length and renders the visible rows only.
 * A column with a higher `priority` number is hidden first on narrow screens.
 */
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import type { PagedList, Rows } from "../data/list.ts";
import { count, counted } from "./numbers.ts";
import { Show } from "./state.tsx";

export interface Column<T> {
  readonly name: string;
  /** A CSS grid track: `minmax(12rem, 2fr)`, `7rem`. */
  readonly width: string;
  /** 1 is always shown, 2 from 640 px, 3 from 1,000 px. */
  readonly priority?: 1 | 2 | 3;
  readonly align?: "end";
  readonly cell: (row: T) => ComponentChildren;
}

/** A short table without scrolling of its own. */
export function Table<T>({
  label,
  columns,
  rows,
  keyOf,
}: {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
}) {
  return (
    <div class="grid-table" role="table" aria-label={label} ref={(element) => setTracks(element, columns)}>
      <HeadRow columns={columns} />
      <div role="rowgroup">
        {rows.map((row) => (
          <Row key={keyOf(row)} columns={columns} row={row} />
        ))}
      </div>
    </div>
  );
}

export interface VirtualTableProps<T> {
  /** `jobs`: names the table, and the states of its list. */
  readonly what: string;
  readonly list: PagedList<T>;
  readonly columns: readonly Column<T>[];
  readonly keyOf: (row: T) => string;
  /** Rows in total, if the list itself does not have it. */
  readonly total?: number | null;
  readonly empty?: ComponentChildren;
}

export function VirtualTable<T>(props: VirtualTableProps<T>) {
  return (
    <div class="list">
      <Show of={props.list} what={props.what} isEmpty={(rows) => rows.count === 0 && !rows.hasMore} empty={props.empty}>
        {(rows) => <VirtualRows {...props} rows={rows} />}
      </Show>
    </div>
  );
}

function VirtualRows<T>({
  what,
  list,
  columns,
  keyOf,
  rows,
  total,
}: VirtualTableProps<T> & { readonly rows: Rows<T> }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer(scroller, rows.count);
  const items = virtualizer.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  useEffect(() => list.see(first, last), [list, first, last, rows]);
  return (
    <>
      <div class="rows" ref={scroller} tabIndex={0} role="region" aria-label={what}>
        <div
          class="grid-table"
          role="table"
          aria-label={what}
          aria-rowcount={rows.hasMore ? (total ?? -1) : rows.count + 1}
          ref={(element) => setTracks(element, columns)}
        >
          <HeadRow columns={columns} />
          <div role="rowgroup" class="virtual" ref={(element) => setHeight(element, virtualizer.getTotalSize())}>
            {items.map((item) => {
              const row = rows.at(item.index);
              const place = (element: HTMLElement | null) => setOffset(element, item.start);
              const key = row === undefined ? item.index : keyOf(row);
              return <Row key={key} {...{ columns, row, place }} index={item.index} />;
            })}
          </div>
        </div>
      </div>
      <Foot {...{ what, rows, total, list, scroller }} />
    </>
  );
}

function useVirtualizer(
  scroller: RefObject<HTMLDivElement | null>,
  rowCount: number,
): Virtualizer<HTMLDivElement, Element> {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const held = useRef<Virtualizer<HTMLDivElement, Element> | null>(null);
  held.current ??= new Virtualizer<HTMLDivElement, Element>({
    count: rowCount,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: redraw,
  });
  const virtualizer = held.current;
  virtualizer.setOptions({ ...virtualizer.options, count: rowCount });
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  return virtualizer;
}

interface FootProps<T> {
  readonly what: string;
  readonly rows: Rows<T>;
  readonly total: number | null | undefined;
  readonly list: PagedList<T>;
  readonly scroller: RefObject<HTMLDivElement | null>;
}

function Foot<T>({ what, rows, total, list, scroller }: FootProps<T>) {
  const newer = list.newer.value;
  const toTop = () => {
    scroller.current?.scrollTo({ top: 0 });
    void list.reload();
  };
  return (
    <p class="list-foot soft" role="status">
      {footText(what, rows, total)}{" "}
      {newer > 0 && (
        <button type="button" class="button small" onClick={toTop}>
          {counted(newer, "newer change")}: show
        </button>
      )}
    </p>
  );
}

function footText(what: string, rows: Rows<unknown>, total: number | null | undefined): string {
  if (!rows.hasMore) return counted(rows.count, singular(what), what);
  const all = typeof total === "number" ? { count: total, exact: true } : rows.total;
  if (all === null || all.count < rows.count) return `${count(rows.count)} ${what} loaded; scroll for more`;
  return `${count(rows.count)} of ${count(all.count)}${all.exact ? "" : "+"} ${what} loaded; scroll for more`;
}

/** `entries` is `entry`, `jobs` is `job`. */
function singular(what: string): string {
  return what.endsWith("ies") ? `${what.slice(0, -3)}y` : what.replace(/s$/, "");
}

function HeadRow<T>({ columns }: { readonly columns: readonly Column<T>[] }) {
  return (
    <div role="rowgroup" class="head">
      <div role="row" class="row" aria-rowindex={1}>
        {columns.map((column) => (
          <div key={column.name} role="columnheader" class={cellClass(column)}>
            {column.name}
          </div>
        ))}
      </div>
    </div>
  );
}

interface RowProps<T> {
  readonly columns: readonly Column<T>[];
  readonly row: T | undefined;
  readonly index?: number;
  readonly place?: (element: HTMLElement | null) => void;
}

function Row<T>({ columns, row, index, place }: RowProps<T>) {
  return (
    <div role="row" class="row" ref={place ?? null} aria-rowindex={index === undefined ? undefined : index + 2}>
      {columns.map((column) => (
        <div key={column.name} role="cell" class={cellClass(column)}>
          {row === undefined ? <span class="soft">…</span> : column.cell(row)}
        </div>
      ))}
    </div>
  );
}

function cellClass<T>({ priority = 1, align }: Column<T>): string {
  return `cell p${priority}${align === "end" ? " end" : ""}`;
}

/** Styles are set on the element: the content security policy allows no style attributes in markup. */
function setTracks<T>(element: HTMLElement | null, columns: readonly Column<T>[]): void {
  for (const level of [1, 2, 3]) {
    const tracks = columns.filter(({ priority = 1 }) => priority <= level).map(({ width }) => width);
    element?.style.setProperty(`--tracks-${level}`, tracks.join(" "));
  }
}

function setHeight(element: HTMLElement | null, height: number): void {
  if (element !== null) element.style.height = `${height}px`;
}

function setOffset(element: HTMLElement | null, start: number): void {
  if (element !== null) element.style.transform = `translateY(${start}px)`;
}

const ROW_PX = 36;
