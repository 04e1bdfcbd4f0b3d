export type ServerName = "rampart serve" | "rampart gateway" | "Worker";

/** A row of the matrix in docs/reference/compatibility.md, each cell of which this suite must show. */
export interface MatrixRow {
  readonly client: string;
  readonly servers: readonly ServerName[];
  /** The server on which the cell is shown. */
  readonly what: string;
}

const native: readonly ServerName[] = ["rampart serve", "rampart gateway"];
const https: readonly ServerName[] = [...native, "Worker"];

const everything = "certificates by token and by certificate, refusals, a rotation";

/** The page repeats it (test/pages/tables.test.ts), and the suite plays each cell of it. */
export const matrix = {
  grpcJs: {
    client: "grpc-js 1.14.7",
    servers: native,
    what: `${everything}, a connection that outlives one`,
  },
  istio: {
    client: "Istio's CA client in Go (pilot-agent's), main of 2026-08-27",
    servers: native,
    what: "the same, but for what it never does: name another identity, show an expired certificate",
  },
  grpcurl: {
    client: "grpcurl 1.9.4",
    servers: native,
    what: `${everything}; health`,
  },
  grpcio: { client: "Python's grpcio 1.85.1", servers: native, what: everything },
  connect: {
    client: "`curl`, Connect with JSON",
    servers: https,
    what: "the same; over plain HTTP to the Worker, so without certificates",
  },
  sClient: {
    client: "OpenSSL 3 (`s_client`)",
    servers: native,
    what: "TLS 1.2 and 1.3 but no older, ALPN `h2`, AES-GCM alone, the server's name and chain",
  },
} as const satisfies Readonly<Record<string, MatrixRow>>;
