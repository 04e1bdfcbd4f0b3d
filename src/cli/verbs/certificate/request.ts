import { writeOutput } from "../../../agent/certificate-output.ts";
import { ClientError, createClient, type X509Svid } from "../../../client/client.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { PemFile } from "../../../program/files/pem-file.ts";
import { TokenFile } from "../../../program/files/small-file.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant } from "../../terminal/text.ts";

/** The options of `certificate request`. */
export interface RequestOptions {
  readonly url: string;
  readonly tokenFile: string;
  readonly out: string;
  readonly trustDomain: string;
  readonly ca?: string;
  readonly json?: true;
}

/**
 * Gets a certificate for a new key, and writes key, chain and roots into a folder as an agent does. Existing files are
 * replaced.
 * @throws OperatorError if the CA refuses or is unavailable, and if a file cannot be written.
 */
export async function request(terminal: Terminal, options: RequestOptions): Promise<void> {
  const { out } = options;
  const { spiffeId, certChain, notAfter, trustBundle, privateKeyPem } = await issue(options);
  const settings = {
    folder: out,
    isAtomic: false,
    mode: 0o600,
    owner: undefined,
    onChange: undefined,
  };
  const files = {
    "key.pem": privateKeyPem,
    "cert-chain.pem": `${certChain}${trustBundle.pem}`,
    "root-cert.pem": trustBundle.pem,
  };
  await writeOutput(settings, files).catch((cause: unknown) => {
    throw new OperatorError(`the files in ${out} cannot be written`, { cause });
  });
  const answer = { spiffeId, notAfter, files: Object.keys(files).map((name) => `${out}/${name}`) };
  terminal.answer(answer, options, () =>
    [
      `${spiffeId}, until ${formatInstant(notAfter)}`,
      ...answer.files.map((file) => `  ${file}`),
    ].join("\n"),
  );
}

async function issue({ url, tokenFile, trustDomain, ca }: RequestOptions): Promise<X509Svid> {
  const fetch = NodeFetch.trusting(await PemFile.readRoots(ca));
  const token = () => TokenFile.read(tokenFile);
  try {
    return await createClient({ url, token, trustDomain, fetch, extractableKeys: true }).issue();
  } catch (error) {
    if (error instanceof TypeError) throw usageError(error.message);
    if (error instanceof ClientError) throw new OperatorError(`${url}: ${error.message}`);
    throw error;
  }
}
