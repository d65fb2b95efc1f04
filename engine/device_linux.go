package engine

import "syscall"

// deviceErrnos are what Linux answers for a device that it can not read or
// write (blk_errors in block/blk-core.c), for damaged metadata of the file
// system (EUCLEAN, EBADMSG) and for a server that is gone (ESTALE).
var deviceErrnos = []syscall.Errno{
	syscall.EIO, syscall.ENODATA, syscall.EREMOTEIO, syscall.EBADE, syscall.EILSEQ, syscall.ENOLINK,
	syscall.ETIMEDOUT, syscall.ENODEV, syscall.ENXIO, syscall.ESTALE, syscall.EUCLEAN, syscall.EBADMSG,
}
