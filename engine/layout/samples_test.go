package layout

import "pgregory.net/rapid"

// llama is Llama-3.1-8B in bf16 on one GPU: 32 layers, 8 KV heads of 128,
// blocks of 16 tokens: 16*8*128*2 bytes * 32 layers = 1 MiB for each of k, v.
func llama() Layout {
	return Layout{
		Model:          "meta-llama/Llama-3.1-8B-Instruct",
		WeightsDigest:  "sha256:0e9e39f249a16976918f6564b8830bc894c89659",
		DType:          "bfloat16",
		KVLayout:       NHD,
		TokensPerBlock: 16, Layers: 32, KVHeads: 8, HeadSize: 128,
		Planes: []Plane{{"k", 1 << 20}, {"v", 1 << 20}},
		TP:     Parallel{Size: 1}, PP: Parallel{Size: 1}, CP: Parallel{Size: 1},
		RoPE:            "llama3:theta=500000,factor=8,low=1,high=4,original=8192",
		Attention:       "gqa",
		HybridKVManager: Off,
		EngineName:      "vllm", LayoutVersion: "1",
		Hash: HashScheme{Algorithm: "sha256_cbor", WidthBytes: 32,
			Root: "4db3f9ff2d6f2a4b0a9c2b2c3a3d2f0f5f6f6c1b1b0d9d8b3a0e7e5d4c3b2a19"},
	}
}

// quantised is a sharded fp8 layout in which every optional field is used.
func quantised() Layout {
	l := llama()
	l.Model = "meta-llama/Llama-3.1-70B-Instruct"
	l.DType = "fp8_e4m3"
	l.KVLayout = HND
	l.Layers = 80
	l.Planes = []Plane{{"k", 163840}, {"v", 163840}, {"k_scale", 5120}, {"v_scale", 5120}}
	l.TP = Parallel{Size: 8, Rank: 3}
	l.AdapterDigest = "sha256:aa11"
	l.Quantisation = Quantisation{Scheme: "fp8_e4m3", ScaleMode: "per-token-head"}
	l.HybridKVManager = On
	l.Extra = map[string]string{"attention_backend": "FLASH_ATTN", "block_pool": "0"}
	return l
}

// latent is an MLA layout: the same bytes on every rank, planes of any size.
func latent() Layout {
	l := llama()
	l.Model = "deepseek-ai/DeepSeek-V3"
	l.KVLayout = Custom("mla-latent")
	l.TokensPerBlock, l.Layers, l.KVHeads, l.HeadSize = 64, 61, 1, 576
	l.Planes = []Plane{{Name: "latent"}, {Name: "indexer"}}
	l.TP = Parallel{Agnostic: true}
	l.Attention = "mla"
	l.Hash.Root = None
	return l
}

func genText(optional bool) *rapid.Generator[string] {
	if optional {
		return rapid.StringMatching(`|[a-m]{1,3}`)
	}
	return rapid.StringMatching(`[a-m]{1,3}`)
}

// genLayout draws valid layouts from few values, so that two of them are often
// nearly equal.
func genLayout() *rapid.Generator[Layout] {
	return rapid.Custom(func(t *rapid.T) Layout {
		text := func(label string) string { return genText(false).Draw(t, label) }
		small := func(label string) uint32 { return rapid.Uint32Range(1, 3).Draw(t, label) }
		shard := func(label string) Parallel {
			if rapid.Bool().Draw(t, label+" agnostic") {
				return Parallel{Agnostic: true}
			}
			size := small(label)
			return Parallel{Size: size, Rank: rapid.Uint32Range(0, size-1).Draw(t, label+" rank")}
		}
		plane := rapid.Custom(func(t *rapid.T) Plane {
			return Plane{Name: rapid.StringMatching(`[a-c]{1,2}`).Draw(t, "plane"), SizeBytes: rapid.Int64Range(0, 3).Draw(t, "size")}
		})
		l := Layout{
			Model: text("model"), WeightsDigest: text("weights"), DType: text("dtype"),
			KVLayout:       rapid.SampledFrom([]KVLayout{NHD, HND, Custom("a"), Custom("b")}).Draw(t, "kv layout"),
			TokensPerBlock: small("tokens"), Layers: small("layers"), KVHeads: small("heads"), HeadSize: small("size"),
			Planes: rapid.SliceOfNDistinct(plane, 1, 4, func(p Plane) string { return p.Name }).Draw(t, "planes"),
			TP:     shard("tp"), PP: shard("pp"), CP: shard("cp"),
			RoPE: text("rope"), Attention: text("attention"),
			AdapterDigest:   genText(true).Draw(t, "adapter"),
			HybridKVManager: rapid.SampledFrom([]Switch{On, Off}).Draw(t, "hybrid"),
			EngineName:      text("engine"), LayoutVersion: text("version"),
			Hash: HashScheme{Algorithm: text("algorithm"), WidthBytes: rapid.Uint32Range(16, 64).Draw(t, "width"),
				Root: rapid.SampledFrom([]string{None, "00", "ab12"}).Draw(t, "root")},
			Extra: rapid.MapOfN(rapid.StringMatching(`[a-c]{1,2}`), genText(true), 0, 3).Draw(t, "extra"),
		}
		if scheme := genText(true).Draw(t, "scheme"); scheme != "" {
			l.Quantisation = Quantisation{Scheme: scheme, ScaleMode: text("scale mode")}
		}
		return l
	})
}
