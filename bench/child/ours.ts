import type { OpenSide } from "./side.ts";
export const openOurs: OpenSide = async () => {
  throw new Error("not yet");
};
