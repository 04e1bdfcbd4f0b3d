import { type JsonBounds, parseJson } from "./json.ts";

/** The members of a JSON object, unchecked. */
export type Members = Readonly<Record<string, unknown>>;

/** Reads the members of a JSON object. */
export const Members = {
  /** The members of a JSON object, or the elements of an array by their indices; `{}` for any other value. */
  of: (json: unknown): Members => (typeof json === "object" && json !== null ? { ...json } : {}),
};

/** {@link parseJson}, or `undefined` for a text that it refuses. */
export function jsonIn(source: string | Uint8Array, bounds?: JsonBounds): unknown {
  try {
    return parseJson(source, bounds);
  } catch {
    return undefined;
  }
}
