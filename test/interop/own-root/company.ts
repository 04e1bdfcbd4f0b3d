import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";

/** A company's CA, kept by OpenSSL. */
export interface Company {
  readonly rootFile: string;
  /** Signs a request with these extensions, in the words of OpenSSL. PEM. */
  readonly sign: (csr: string, extensions: string) => Promise<string>;
}

const openssl = (...values: readonly string[]): Promise<string> => runWell("openssl", values);

/** The root is as Istio's own samples have it: EC, self-signed, of version 1, without an extension. */
export async function foundCompany(folder: string, name: string): Promise<Company> {
  await mkdir(folder, { recursive: true });
  const [csr, key, root] = ["csr", "key", "pem"].map((end) => join(folder, `root.${end}`)) as [
    string,
    string,
    string,
  ];
  await requestWithKey(key, csr, `/O=${name}/CN=Root CA`);
  await openssl(..."x509 -req -days 30 -signkey".split(" "), key, "-in", csr, "-out", root);
  let signed = 0;
  return {
    rootFile: root,
    sign: async (request, extensions) => {
      const files = join(folder, `intermediate-${++signed}`);
      const [ext, out] = [`${files}.ext`, `${files}.pem`];
      await Promise.all([writeFile(`${files}.csr`, request), writeFile(ext, `${extensions}\n`)]);
      const issuer = ["-CA", root, "-CAkey", key, "-CAcreateserial"];
      const values = ["-in", `${files}.csr`, "-extfile", ext, "-out", out];
      await openssl("x509", "-req", "-days", "30", ...issuer, ...values);
      return readFile(out, "utf8");
    },
  };
}

async function requestWithKey(key: string, csr: string, subject: string): Promise<void> {
  const kind = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes".split(" ");
  await openssl("req", "-new", ...kind, "-keyout", key, "-subj", subject, "-out", csr);
}
