import * as z from "zod/mini";
import { isSafeToFetch } from "../authn/token/issuer-keys.ts";

/** A URL under which paths are fetched; no slash at the end. */
export const baseUrl: z.ZodMiniType<string, string> = z.string().check(
  z.refine(isSafeToFetch, "must be an https URL"),
  z.refine((url) => !url.includes("?"), "must have no query"),
  z.overwrite((url) => url.replace(/\/+$/, "")),
);
