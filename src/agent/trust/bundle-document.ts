import type { X509Certificate } from "node:crypto";
import { parseCertificate } from "../../host/certificates.ts";

/** The X.509 part of a SPIFFE bundle. */
export interface BundleDocument {
  readonly sequence: number;
  /** The refresh hint, or the standard's five minutes if the bundle has none. */
  readonly refreshSeconds: number;
  readonly roots: readonly X509Certificate[];
}

const defaultRefreshSeconds = 300;
const longestRefreshSeconds = 24 * 3600;
const maximumKeys = 100;

/**
 * Parses a SPIFFE bundle (SPIFFE Trust Domain and Bundle §4). As the standard demands, it ignores keys of
 * another use or type.
 *
 * @returns `undefined` for an invalid bundle, and for one with a certificate that is not a CA's.
 */
export function parseSpiffeBundle(text: string): BundleDocument | undefined {
  const document = parseObject(text);
  const keys = document?.keys;
  const sequence = document?.spiffe_sequence ?? 0;
  const hint = document?.spiffe_refresh_hint ?? defaultRefreshSeconds;
  if (!Array.isArray(keys) || keys.length > maximumKeys) return undefined;
  if (!isCount(sequence) || !isCount(hint)) return undefined;
  const entries = keys.filter((key) => key?.use === "x509-svid" && Array.isArray(key.x5c));
  const roots = entries.map((key) => parseRoot(key.x5c[0]));
  if (!roots.every((root) => root !== undefined)) return undefined;
  const refreshSeconds = Math.min(longestRefreshSeconds, Math.max(1, hint));
  return { sequence, refreshSeconds, roots };
}

function parseRoot(x5c: unknown): X509Certificate | undefined {
  const root = typeof x5c === "string" ? parseCertificate(x5c) : undefined;
  return root?.ca ? root : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

interface UnreadBundle {
  readonly keys?: unknown;
  readonly spiffe_sequence?: unknown;
  readonly spiffe_refresh_hint?: unknown;
}

function parseObject(text: string): UnreadBundle | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    // The position of a syntax error helps no operator.
    return undefined;
  }
}
