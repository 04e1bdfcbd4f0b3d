import * as z from "zod/mini";

/** A URL under which paths are fetched; no slash at the end. */
export const baseUrl: z.ZodMiniType<string, string> = z.string().check(
  z.refine(isSafeToFetch, "must be an https URL"),
  z.refine((url) => !url.includes("?"), "must have no query"),
  z.overwrite((url) => url.replace(/\/+$/, "")),
);

/** Whether a document may be fetched from this URL: over HTTPS, or from this machine itself in development. */
export function isSafeToFetch(url: string): boolean {
  const parsed = URL.parse(url);
  if (!parsed || parsed.username || parsed.password || url.includes("#")) return false;
  return parsed.protocol === "https:" || (parsed.protocol === "http:" && isLoopback(parsed));
}

function isLoopback({ hostname }: URL): boolean {
  return hostname === "127.0.0.1" || hostname === "localhost" || hostname === "[::1]";
}
