import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { holdToLimbo, holdToWycheproof } from "../contract/public-vectors.ts";
import wycheproof from "../vectors/wycheproof.json" with { type: "json" };

holdToWycheproof(wycheproof, [webCryptoProvider]);
holdToLimbo();
