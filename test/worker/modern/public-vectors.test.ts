import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { holdToWycheproof } from "../../contract/public-vectors.ts";
import mlDsa from "../../vectors/wycheproof-ml-dsa.json" with { type: "json" };

holdToWycheproof(mlDsa, [webCryptoProvider]);
