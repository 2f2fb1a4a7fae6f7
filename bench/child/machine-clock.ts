/** Milliseconds by the machine's monotonic clock, which all its processes share. */
export const machineMs = (): number => Number(process.hrtime.bigint()) / 1e6;
