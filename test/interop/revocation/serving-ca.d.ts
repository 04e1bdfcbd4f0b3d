import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import { type Mesh } from "../native-grpc/mesh.ts";
/** `rampart serve` with CRLs, and an operator beside it. */
export interface ServingCa {
  readonly mesh: Mesh;
  /** The URL of its monitoring port. */
  readonly published: string;
  /** Replaces its configuration file, with these keys beside those of the start. */
  readonly configure: (values: Readonly<Record<string, unknown>>) => Promise<void>;
  /** `localhost:port` of its RPCs. */
  readonly address: string;
  /** A file with its roots. */
  readonly rootFile: string;
  /** Writes its present roots into that file. */
  readonly writeRoots: () => Promise<void>;
  /** `rampart certificate revoke`, with the certificate as PEM. */
  readonly revoke: (certificate: Buffer) => Promise<void>;
  /** Revokes certificates of the signing authority by their serial numbers in hexadecimal. */
  readonly revokeSerials: (serialNumbers: readonly string[]) => Promise<void>;
  /** `rampart deny add`. */
  readonly deny: (subject: string) => Promise<void>;
  /** Taints the signing authority. A new one signs from now on. */
  readonly taint: (departure: Departure) => Promise<string>;
  /** The octets of `/crl.pem`. */
  readonly crlOctets: () => Promise<number>;
  readonly end: () => Promise<void>;
}
interface MoreValues extends Readonly<Record<string, unknown>> {
  readonly SIGNERS?: readonly Readonly<Record<string, unknown>>[];
}
export declare const istiodName = "istiod.istio-system.svc";
/**
 * @param host The address that it listens on.
 * @param variables More of its environment.
 * @param more More of its configuration. The callers of its signers are all of the mesh.
 */
export declare function startServingCa(
  folder: string,
  host?: string,
  variables?: Readonly<Record<string, string>>,
  { SIGNERS: signers, ...more }?: MoreValues,
): Promise<ServingCa>;
