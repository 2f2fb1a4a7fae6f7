/** Saves text as a file of the browser's user. */
export function download(name: string, type: string, text: readonly string[]): void {
  const url = URL.createObjectURL(new Blob([...text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
