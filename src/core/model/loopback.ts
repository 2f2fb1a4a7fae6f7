/** Names and addresses of this very machine: what is said to them crosses no network. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(host);
}

/** Of `host:port`; an address of IP version 6 keeps its brackets. */
export function hostOf(address: string): string {
  return address.replace(/:\d+$/, "");
}
