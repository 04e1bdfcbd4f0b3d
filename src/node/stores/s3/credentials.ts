import { OperatorError } from "../../../foundation/errors.ts";
import { readSmallFile } from "../../../program/files/small-file.ts";
import type { Environment } from "../../files/cluster-place.ts";

/** The credential for an S3-compatible service. No log or error quotes any of it. */
export interface S3Credential {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of a credential that lasts for some hours. */
  readonly sessionToken: string | undefined;
}

/** The credential of this moment. @throws OperatorError */
export type S3Credentials = () => Promise<S3Credential>;

const maximumOctets = 65_536;

/**
 * The credential in a file of the form that AWS's tools share, in its profile `default` or in front of every
 * profile. Each call reads the file, because others rotate what is in it.
 */
export function credentialsInFile(path: string): S3Credentials {
  return async () => {
    const credential = toCredential(parseDefaultProfile(await readSmallFile(path, maximumOctets)));
    if (credential) return credential;
    throw new OperatorError(`${path} must hold aws_access_key_id and aws_secret_access_key`);
  };
}

/** The credential in the variables of AWS's tools; `undefined` where they have none. */
export function credentialsInEnvironment(environment: Environment): S3Credentials | undefined {
  const values = Object.entries(environment).map(
    ([name, value]) => [name.toLowerCase(), value?.trim() ?? ""] as const,
  );
  const credential = toCredential(new Map(values));
  return credential && (async () => credential);
}

function parseDefaultProfile(text: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  let isDefault = true;
  for (const line of text.split(/\r?\n/)) {
    const [, profile] = /^\s*\[\s*(.*?)\s*\]/.exec(line) ?? [];
    if (profile !== undefined) isDefault = profile === "default";
    const [, key, value] = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (isDefault && key !== undefined && value !== undefined) values.set(key, value);
  }
  return values;
}

function toCredential(values: ReadonlyMap<string, string>): S3Credential | undefined {
  const accessKeyId = values.get("aws_access_key_id") ?? "";
  const secretAccessKey = values.get("aws_secret_access_key") ?? "";
  const sessionToken = values.get("aws_session_token") || undefined;
  // A header has no room for anything else, and its error would quote the value.
  const isWhole =
    /^[!-+\-.0-~]{1,256}$/.test(accessKeyId) &&
    /^[!-~]{1,1024}$/.test(secretAccessKey) &&
    (sessionToken === undefined || /^[!-~]{1,16384}$/.test(sessionToken));
  return isWhole ? { accessKeyId, secretAccessKey, sessionToken } : undefined;
}
