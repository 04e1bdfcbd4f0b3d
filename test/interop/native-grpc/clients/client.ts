import type { ServerName } from "../../../pages/compatibility-matrix.ts";

/** The address and the trust of a running server. */
export interface Server {
  readonly name: ServerName;
  readonly address: string;
  /** Absent for plain HTTP, where the edge terminates TLS. */
  readonly tls: { readonly serverName: string; readonly rootsFile: string } | undefined;
  /** The trust bundle that it publishes now, PEM. */
  readonly bundle: () => Promise<string>;
  /** The id of the authority that signs there now. */
  readonly signer: () => Promise<string>;
}

/** A certificate and its key in files. */
export interface CertificateFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** A request, and the credentials of its caller. */
export interface Call {
  readonly csr: string;
  readonly validitySeconds: number;
  readonly token?: string;
  readonly clusterId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly certificate?: CertificateFiles;
}

/** The headers of a call, by lower-case names. */
export const headersOf = ({ token, clusterId }: Call): Readonly<Record<string, string>> => ({
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
  ...(clusterId !== undefined && { clusterid: clusterId }),
});

/** gRPC's name of a code, as Go writes it; `OK` comes with a chain. */
export type Answer =
  | { readonly code: "OK"; readonly certChain: readonly string[] }
  | { readonly code: string; readonly message: string };

/** A key, PEM, and the CSR for it. */
export interface KeyAndRequest {
  readonly keyPem: string;
  readonly csr: string;
}

/** Software of other authors, as a caller of CreateCertificate. */
export interface CertificateClient {
  readonly createCertificate: (server: Server, call: Call) => Promise<Answer>;
  /** Makes a key and a CSR. Absent in clients without code for that. */
  readonly createRequest?: (spiffeId: string) => Promise<KeyAndRequest>;
  /** The abilities that it lacks. */
  readonly cannot: readonly ("name an identity" | "show an expired certificate")[];
  /** A check of this client alone: the description of a fault, or `undefined`. */
  readonly more?: Readonly<Record<string, (server: Server) => Promise<string | undefined>>>;
}

/** `DEADLINE_EXCEEDED` and `deadline_exceeded` as `DeadlineExceeded`. */
export function codeName(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase());
}
