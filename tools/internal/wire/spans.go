package wire

import "strconv"

// AppendSpan appends a span to a list "region:offset:length[,…]".
func AppendSpan(dst []byte, region, offset, length int64) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(strconv.AppendInt(dst, region, 10), ':')
	dst = append(strconv.AppendInt(dst, offset, 10), ':')
	return strconv.AppendInt(dst, length, 10)
}
