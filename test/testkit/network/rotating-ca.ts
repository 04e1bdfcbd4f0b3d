import { X509Certificate } from "node:crypto";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { TlsIdentity } from "./tls-identity.ts";

interface RotatingCa {
  readonly port: number;
  readonly publish: (certificate: TlsIdentity, roots: readonly TlsIdentity[]) => void;
  /** Closes every connection. */
  readonly cut: () => void;
}

/**
 * A CA that publishes a bundle alone, whose certificate and roots the test sets.
 *
 * @param held What it says of its answers, such as that it holds them.
 */
export async function startRotatingCa(
  first: TlsIdentity,
  held: Readonly<Record<string, string>> = {},
): Promise<RotatingCa> {
  let state = { certificate: first, roots: [first] };
  let sequence = 0;
  const options = () => ({ key: state.certificate.key, cert: state.certificate.ca });
  const server = createServer(options(), (_request, response) => {
    const keys = state.roots.map(({ ca }) => ({
      use: "x509-svid",
      x5c: [new X509Certificate(ca).raw.toString("base64")],
    }));
    const hint = { spiffe_sequence: sequence, spiffe_refresh_hint: 1 };
    response.writeHead(200, held);
    response.end(JSON.stringify({ ...hint, keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => server.closeAllConnections(),
    publish: (certificate, roots) => {
      state = { certificate, roots: [...roots] };
      sequence++;
      server.setSecureContext(options());
    },
  };
}
