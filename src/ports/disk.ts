/** The disk that holds the data of this process. */
export interface Disk {
  usage(): Promise<DiskUsage>;
}

export interface DiskUsage {
  readonly path: string;
  /** What this process may still write; less than what the file system has free if some of it is reserved. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}
