import type { ServerName } from "./matrix.ts";

/** A running server, as a client is configured for it. */
export interface Server {
  readonly name: ServerName;
  readonly address: string;
  /** Without it, plain HTTP: TLS is the edge's there. */
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

/** What a client asks for, and as whom. */
export interface Call {
  readonly csr: string;
  readonly validitySeconds: number;
  readonly token?: string;
  readonly clusterId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly certificate?: CertificateFiles;
}

/** gRPC's name of a code, as Go writes it; `OK` comes with a chain. */
export type Answer =
  | { readonly code: "OK"; readonly certChain: readonly string[] }
  | { readonly code: string; readonly message: string };

/** A key, PEM, and the CSR for it. */
export interface KeyAndRequest {
  readonly keyPem: string;
  readonly csr: string;
}

/** Software that nobody here wrote, as a caller of CreateCertificate. */
export interface CertificateClient {
  readonly createCertificate: (server: Server, call: Call) => Promise<Answer>;
  /** Makes its own key and CSR, where it has code for that. */
  readonly createRequest?: (spiffeId: string) => Promise<KeyAndRequest>;
  /** What it has no way to do. */
  readonly cannot: readonly ("name an identity" | "show an expired certificate")[];
  /** What only this client can show: a fault in words, or nothing. */
  readonly more?: Readonly<Record<string, (server: Server) => Promise<string | undefined>>>;
}

/** `DEADLINE_EXCEEDED` and `deadline_exceeded` as `DeadlineExceeded`. */
export function codeName(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase());
}
