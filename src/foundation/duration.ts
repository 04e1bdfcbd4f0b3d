import type * as z from "zod/mini";
import { parsedText } from "./parsed-text.ts";

const form = /^(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?$/;

/** A duration as Istio's settings write it (`24h`, `1h30m`, `90s`), as seconds. */
export const durationSeconds: z.ZodMiniType<number, string> = parsedText(
  parseDuration,
  "must be a duration such as 24h, 90m or 1h30m",
);

function parseDuration(text: string): number | undefined {
  const [, hours, minutes, seconds] = form.exec(text) ?? [];
  if (hours === undefined && minutes === undefined && seconds === undefined) return undefined;
  return Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
}
