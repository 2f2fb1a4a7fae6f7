export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(host);
}

/** The host of `host:port`; IPv6 addresses keep their brackets. */
export function hostOf(address: string): string {
  return address.replace(/:\d+$/, "");
}
