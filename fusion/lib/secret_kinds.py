"""The kinds of keys with a recognisable format: a prefix of their vendor, or a pattern of their own.

One row for each kind: its name, optionally with its least number of characters; literals in lower case, one of which a
text must contain; the regular expression. The formats are those that the vendors document. Every repetition is bounded
or possessive, so that matching takes linear time. A row comes before rows that would match a part of its keys.
"""

from __future__ import annotations

from typing import NamedTuple

SHORTEST = 16
"""characters of the shortest key"""


class Made(NamedTuple):
    """A kind of key: its name, least number of characters, literals in lower case, and regular expression."""

    kind: str
    least: int
    hints: tuple[str, ...]
    expression: str


def _rows() -> tuple[Made, ...]:
    rows = r"""
    anthropic     sk-ant-                       sk-ant-[\w-]{16,}+
    mapbox        sk.eyj                        sk\.eyJ[\w-]{20,}+\.[\w-]{20,}+
    elevenlabs:51 sk_                           sk_[0-9a-f]{48}(?![\w-])
    stripe        sk_live_,sk_test_,rk_live_,rk_test_,whsec_  (?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9+/=]{24,}+)
    openai        sk-                           sk-(?=[A-Za-z_-]*+\d)[\w-]{20,}+
    github        ghp_,gho_,ghu_,ghs_,ghr_,github_pat_  (?:gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+)
    gitlab        glpat-,gldt-,glrt-,glcbt-,glptt-,glft-,glimt-,glagent-,gloas-,glsoat-,glffct-,glwt-,gr1348941  (?:gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w.-]{16,}+|GR1348941[\w-]{16,}+)
    bitbucket:32  atbb                          ATBB[A-Za-z0-9]{28,}+
    atlassian     atatt3,atctt3                 AT(?:A|C)TT3[\w=-]{40,}+
    slack         xox,xapp-,xwfp-               (?:xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{10,}+|xwfp-[A-Za-z0-9-]{16,}+)
    groq          gsk_                          gsk_[A-Za-z0-9]{20,}+
    google        aiza                          AIza[\w-]{30,}+
    google_oauth  gocspx-,ya29.,1//0            (?:GOCSPX-[\w-]{20,}+|ya29\.[\w-]{20,}+|1//0[\w-]{30,}+)
    gemini:43     aq.                           AQ\.[\w-]{40,}+
    perplexity    pplx-                         pplx-[A-Za-z0-9]{20,}+
    npm           npm_                          npm_[A-Za-z0-9]{30,}+
    pypi          pypi-ageichlw,pypi-agendgvzdc pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZ)[\w-]{16,}+
    rubygems      rubygems_                     rubygems_[0-9a-f]{32,}+
    crates:35     cio                           cio[A-Za-z0-9]{32}(?![\w-])
    nuget:46      oy2                           oy2[a-z0-9]{43}(?![\w-])
    docker_hub    dckr_pat_,dckr_oat_           dckr_[op]at_[\w-]{20,}+
    huggingface   hf_,api_org_                  (?:hf_[A-Za-z0-9]{20,}+|api_org_[A-Za-z0-9]{30,}+)
    replicate     r8_                           r8_[A-Za-z0-9]{30,}+
    xai           xai-                          xai-(?=[A-Za-z_-]*+\d)[\w-]{40,}+
    fireworks:23  fw_                           fw_(?=[A-Za-z]*+\d)[A-Za-z0-9]{20,}+
    cerebras      csk-                          csk-(?=[A-Za-z]*+\d)[A-Za-z0-9]{40,}+
    nvidia        nvapi-                        nvapi-[\w-]{50,}+
    langsmith     lsv2_                         lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{8,}+
    pinecone      pcsk_                         pcsk_\w{40,}+
    jina          jina_                         jina_[0-9a-f]{32}\w{16,}+
    tavily        tvly-                         tvly-(?=[A-Za-z_-]*+\d)[\w-]{20,}+
    firecrawl:35  fc-                           fc-[0-9a-f]{32}(?![\w-])
    voyage:43     pa-                           pa-(?=[A-Za-z_-]*+\d)[\w-]{40,}+
    aws           akia,asia,abia,acca           (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])
    aws_bedrock   absk                          ABSK[A-Za-z0-9+/]{60,}+={0,2}
    azure_secret:37 q~                            [\w~.-]{3}\dQ~[\w~.-]{31,40}(?![\w~-])
    azure_devops  azdo                          [A-Za-z0-9]{70,80}AZDO[A-Za-z0-9]{4}(?![\w-])
    alibaba       ltai                          LTAI[A-Za-z0-9]{16,26}(?![\w-])
    tencent       akid                          AKID[A-Za-z0-9]{32}(?![\w-])
    digitalocean  dop_v1_,doo_v1_,dor_v1_       do[opr]_v1_[0-9a-f]{48,}+
    cloudflare    v1.0-                         v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}+
    heroku        hrku-                         HRKU-[\w-]{30,}+
    flyio         fm1_,fm2_,fo1_                (?:fm[12]_[\w+/=]{40,}+|fo1_[\w-]{40,}+)
    render        rnd_                          rnd_(?=[A-Za-z]*+\d)[A-Za-z0-9]{24,}+
    netlify       nfp_,nfc_,nfo_,nfu_           nf[pcou]_[A-Za-z0-9]{30,}+
    vercel        vcp_,vci_,vca_,vcr_,vck_      vc[piark]_[A-Za-z0-9]{24,}+
    pulumi        pul-                          pul-[0-9a-f]{40}(?![\w-])
    terraform     .atlasv1.                     [A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,}+
    vault         hvs.,hvb.,hvr.                hv[sbr]\.[\w-]{20,}+
    doppler:42    dp.                           dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,40}\.)?[A-Za-z0-9]{36,}+
    onepassword   ops_eyj,a3-                   (?:ops_eyJ[\w+/=-]{60,}+|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5})
    age           age-secret-key-1              AGE-SECRET-KEY-1[A-Z0-9]{40,}+
    databricks    dapi,dose                     (?:dapi|dose)[0-9a-f]{32}(?:-\d)?(?![\w-])
    openshift     sha256~                       sha256~[\w-]{40,}+
    datadog       ddp_,dda_,ddapp_              dd(?:p|a|app)_[A-Za-z0-9]{30,}+
    new_relic     nrak-,nrjs-,nrii-,nrra-,nraa-,nrbr-  NR(?:AK|JS|II|RA|AA|BR)-[A-Za-z0-9_-]{16,}+
    sentry        sntrys_,sntryu_,sntrya_       sntry[sua]_[\w+/=-]{32,}+
    grafana       glsa_,glc_,eyjriijoi,eyjrijoi (?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/]{32,}+={0,2}|eyJrIjoi[\w=]{50,}+)
    dynatrace     dt0c01.,dt0s                  dt0[a-z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{40,}+
    posthog       phx_                          phx_[A-Za-z0-9]{32,}+
    honeycomb     hcaik_,hcbik_,hcxik_          hc[abx]ik_[A-Za-z0-9]{40,}+
    sendgrid:36   sg.                           SG\.[\w-]{16,32}\.[\w-]{16,64}(?![\w-])
    mailgun:36    key-,pubkey-                  (?:key-[0-9a-f]{32}|pubkey-[0-9a-f]{32})(?![\w-])
    brevo         xkeysib-,xsmtpsib-            x(?:key|smtp)sib-[0-9a-f]{40,}+-\w{8,}+
    resend:30     re_                           re_(?=[A-Za-z]*+\d)[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+
    telegram      :aa                           (?:bot)?\d{8,10}:AA[\w-]{33}(?![\w-])
    twilio:34     sk                            SK[0-9a-f]{32}(?![\w-])
    shopify       shpat_,shpca_,shppa_,shpss_   shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}
    square:28     sq0,eaaa                      (?:sq0[a-z]{3}-[\w-]{22,}+|EAAA[A-Za-z0-9_-]{56,64}(?![\w-]))
    paypal        access_token$                 access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}
    plaid         access-sandbox-,access-development-,access-production-,access-link-  access-(?:sandbox|development|production)-[0-9a-f-]{36}
    razorpay      rzp_                          rzp_(?:live|test)_\w{14,}+
    flutterwave   flwseck                       FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,}+
    facebook:83   eaa                           EAA[A-Za-z0-9]{80,}+
    twitter       aaaaaaaaaaaaaaaaaaaa          A{20,24}[A-Za-z0-9%]{60,}+
    dropbox:103   sl.                           sl\.(?:u\.)?[\w-]{100,}+
    hubspot       pat-na,pat-eu,pat-ap          pat-(?:na|eu|ap)\d-[0-9a-f-]{36}
    linear        lin_api_,lin_oauth_           lin_(?:api|oauth)_[A-Za-z0-9]{32,}+
    notion        ntn_,secret_                  (?:ntn_[A-Za-z0-9]{40,}+|secret_(?=[A-Za-z]*+\d)[A-Za-z0-9]{43}(?![\w-]))
    airtable:57   pat                           pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}+
    figma         figd_,figu_,figo_             fig[duo]_[\w-]{30,}+
    postman       pmak-                         PMAK-[0-9a-f]{24}-[0-9a-f]{30,}+
    asana:47      1/                            [12]/\d{12,20}(?:/\d{12,20})?:[0-9a-f]{32}(?![\w-])
    supabase      sbp_,sb_secret_               (?:sbp_[0-9a-f]{40,}+|sb_secret_[\w-]{20,}+)
    planetscale   pscale_                       pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}+
    neon          napi_                         napi_[A-Za-z0-9]{40,}+
    prefect       pnu_                          pnu_[A-Za-z0-9]{30,}+
    sourcegraph   sgp_                          sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}(?![\w-])
    sonar         sqp_,squ_,sqa_                sq[pua]_[0-9a-f]{40}(?![\w-])
    circleci      ccipat_                       CCIPAT_[\w-]{30,}+
    buildkite     bkua_,bkpat_                  bk(?:ua|pat)_[0-9a-f]{32,}+
    artifactory   akcp,cmvmd                    (?:AKCp[A-Za-z0-9]{60,}+|cmVmd[A-Za-z0-9]{55,}+)
    typeform      tfp_                          tfp_[\w.=-]{40,}+
    shippo        shippo_                       shippo_(?:live|test)_[0-9a-f]{32,}+
    duffel        duffel_                       duffel_(?:live|test)_[\w=-]{40,}+
    easypost      ezak,eztk                     EZ[AT]K[A-Za-z0-9]{50,}+
    readme        rdme_                         rdme_[a-z0-9]{60,}+
    clojars       clojars_                      CLOJARS_[a-z0-9]{50,}+
    contentful    cfpat-                        CFPAT-[\w-]{40,}+
    adafruit      aio_                          aio_[A-Za-z0-9]{28}(?![\w-])
    scaleway:20   scw                           SCW[A-Z0-9]{17}(?![\w-])
    yandex:34     aqvn,t1.                      (?:AQVN[\w-]{30,}+|t1\.[A-Za-z0-9_-]{10,}+={0,2}\.[\w-]{80,}+={0,2})
    amazon_mws    amzn.mws.                     amzn\.mws\.[0-9a-f-]{36}
    discord:57    .                             [MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w.-])
    mailchimp:36  -us                           [0-9a-f]{32}-us\d{1,2}(?![\w-])
    jwt           eyj                           eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+(?:\.[\w-]*+)?
    """
    made = []
    for line in rows.strip().splitlines():
        named, hints, expression = line.split(None, 2)
        kind, _, least = named.partition(":")
        made.append(Made(kind, int(least or SHORTEST), tuple(hints.split(",")), expression))
    return tuple(made)


MADE = _rows()
