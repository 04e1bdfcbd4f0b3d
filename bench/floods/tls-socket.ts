import { connect as connectTcp } from "node:net";
import { connect, type TLSSocket } from "node:tls";

/** The port that is called, and the address of the loopback interface that it is called from. */
export interface Target {
  readonly port: number;
  readonly localAddress: string;
  /** Whether the port is one without TLS, such as that of monitoring. */
  readonly isPlaintext?: boolean;
}

/** A connection with TLS that begins at this address. Nobody looks at the certificate. */
export function openTls(target: Target, protocol: "h2" | "http/1.1" = "h2"): TLSSocket {
  const socket = connectTcp({ host: "127.0.0.1", ...target });
  socket.on("error", () => {});
  return connect({ socket, rejectUnauthorized: false, ALPNProtocols: [protocol] });
}
