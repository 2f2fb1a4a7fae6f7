/** Icons, drawn with the colour of the text. They repeat what a text beside them says. */
const PATHS = {
  alert: "M8 2 14.5 13.5H1.5Z M8 6.5v3 M8 11.6v.2",
  check: "m3 8.5 3.2 3.2L13 5",
  chevron: "m5 6.5 3 3 3-3",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2Z M8 5v3.2l2.2 1.3",
  close: "m4 4 8 8 M12 4l-8 8",
  copy: "M5.5 5.5v-3h8v8h-3 M2.5 5.5h8v8h-8Z",
  menu: "M2.5 4.5h11 M2.5 8h11 M2.5 11.5h11",
  moon: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8Z",
  question:
    "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2Z M6.3 6.4a1.8 1.8 0 1 1 2.4 1.7c-.5.2-.7.5-.7 1 M8 11.1v.2",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Z m3.3 7.8 3.2 3.2",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6Z M8 1.5v1.2 M8 13.3v1.2 M1.5 8h1.2 M13.3 8h1.2 M3.4 3.4l.9.9 M11.7 11.7l.9.9 M3.4 12.6l.9-.9 M11.7 4.3l.9-.9",
  system: "M2.5 3.5h11v7h-11Z M6 13h4 M8 10.5V13",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
