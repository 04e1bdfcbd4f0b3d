import { OperatorError } from "../../../foundation/errors.ts";
import { type FileKinds, SmallFile } from "../../../program/files/small-file.ts";

/** The texts of a directory or a Secret by their keys. */
type Entries = ReadonlyMap<string, Source>;

/** The keys of one of Istio's layouts (`detectSigningCABundleAndCRL`). */
interface Layout {
  readonly certificate: string;
  readonly privateKey: string;
  readonly root: string;
  /** Intermediates in a file of their own; others may follow the authority's certificate. */
  readonly chain: string | undefined;
}

const istio: Layout = {
  certificate: "ca-cert.pem",
  privateKey: "ca-key.pem",
  root: "root-cert.pem",
  chain: "cert-chain.pem",
};

const kubernetesTls: Layout = {
  certificate: "tls.crt",
  privateKey: "tls.key",
  root: "ca.crt",
  chain: undefined,
};

const layouts: readonly Layout[] = [istio, kubernetesTls];

const crlEntry = "ca-crl.pem";

/** The names of the files, and of a Secret's keys, that an import reads. */
export const caKeys: readonly string[] = [
  ...layouts.flatMap(({ certificate, privateKey, root, chain }) =>
    [certificate, privateKey, root, chain].filter((key) => key !== undefined),
  ),
  crlEntry,
];

/** Whether these names include the certificate and the private key of a layout. */
export function holdsCa(keys: ReadonlySet<string>): boolean {
  return layouts.some((layout) => keys.has(layout.certificate) && keys.has(layout.privateKey));
}

/**
 * Finds the CA in these entries.
 * @param name The directory or Secret, as the operator knows it.
 * @param isComplete Whether root and chain are required, as istiod requires them in a directory. A Secret may lack
 *   them: the one of a self-signed istiod has neither.
 * @throws OperatorError with a line for each missing or empty entry, and for two layouts at once.
 */
export function materialOf(entries: Entries, name: string, isComplete: boolean): PluggedInMaterial {
  const layout = layoutOf(entries, name);
  const { certificate, privateKey, root, chain } = layout;
  const needed = [certificate, privateKey, ...(isComplete ? [root] : [])];
  const faults = needed.flatMap((key) => faultsOf(entries, name, key));
  if (isComplete && chain && !entries.has(chain)) {
    faults.push(`${name}: ${chain} is missing (it may be empty)`);
  }
  if (faults.length > 0) throw new OperatorError(["incomplete CA bundle", ...faults].join("\n"));
  const crl = filled(entries, crlEntry);
  return {
    certificate: present(entries, certificate),
    privateKey: present(entries, privateKey),
    chain: chain ? filled(entries, chain) : [],
    roots: filled(entries, root),
    ...(crl[0] ? { crl: crl[0] } : {}),
  };
}

function layoutOf(entries: Entries, name: string): Layout {
  const found = layouts.filter(
    ({ certificate, privateKey }) => entries.has(certificate) || entries.has(privateKey),
  );
  if (found.length > 1) {
    throw new OperatorError(`${name}: holds two CAs, ca-cert.pem and tls.crt: remove one of them`);
  }
  const [layout] = found;
  if (layout) return layout;
  throw new OperatorError(
    `${name}: holds no CA: neither ca-cert.pem and ca-key.pem, nor tls.crt and tls.key`,
  );
}

function faultsOf(entries: Entries, name: string, key: string): string[] {
  const source = entries.get(key);
  if (!source) return [`${name}: ${key} is missing`];
  return source.text.trim() === "" ? [`${source.name}: is empty`] : [];
}

function filled(entries: Entries, key: string): Source[] {
  const source = entries.get(key);
  return source && source.text.trim() !== "" ? [source] : [];
}

function present(entries: Entries, key: string): Source {
  const source = entries.get(key);
  if (!source) throw new Error(`${key} was there before`);
  return source;
}

/** A text, and the name by which the operator knows it: `cacerts/ca-cert.pem`. */
export interface Source {
  readonly name: string;
  readonly text: string;
  /** The path, if it is a file of its own. */
  readonly path?: string;
}

/**
 * The certificates and the key of a plugged-in CA, from any of Istio's layouts, not verified yet. None of its texts is
 * empty.
 */
export interface PluggedInMaterial {
  /** The authority's certificate first; the certificates after it belong to the chain. */
  readonly certificate: Source;
  readonly privateKey: Source;
  /** Certificates between the authority and its root, in any number of files; not trusted. */
  readonly chain: readonly Source[];
  /** The roots that the operator trusts; empty only where the authority may be its own root. */
  readonly roots: readonly Source[];
  /** Istio's `ca-crl.pem`, which Rampart does not import. */
  readonly crl?: Source;
}

/**
 * Reads a file or pipe as text. Links are followed, because Kubernetes mounts files as links.
 * @throws OperatorError as {@link SmallFile.readOctets}, and for what is neither UTF-8 nor PEM.
 */
export async function loadSource(
  path: string,
  maximumOctets: number,
  kinds: FileKinds = { mayBePipe: true },
): Promise<Source> {
  const octets = await SmallFile.readOctets(path, maximumOctets, kinds);
  return { name: path, path, text: utf8(path, octets) };
}

/**
 * Decodes octets as text.
 * @param name For the error.
 * @throws OperatorError for what is neither UTF-8 nor PEM, mostly a key in DER.
 */
export function utf8(name: string, octets: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    const text = Buffer.from(octets).toString("latin1");
    // The PEM reader accepts any encoding around the blocks, and refuses UTF-16 by name.
    if (/-----BEGIN |B\0E\0G\0I\0N/.test(text)) return text;
    throw new OperatorError(`${name}: is not text; PEM is needed, not DER`);
  }
}
